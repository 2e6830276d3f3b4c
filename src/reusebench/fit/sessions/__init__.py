"""Which layout of conversations of a language model fits: predicted from accounts and few plans.

1. A process of the runtime tells the account of every layout without making its contexts.
2. A few plans of one or two conversations are measured: what no account has, and speed.
3. The search predicts every layout, and recommends one.
"""
