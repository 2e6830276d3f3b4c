"""What the inputs of a user's model are fed with: shapes and values that are assumed, and real
data.
"""
