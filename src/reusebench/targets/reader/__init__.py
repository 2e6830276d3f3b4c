"""The build of the program that runs on a remote board beside the measured process, and reads it
for the harness.
"""
