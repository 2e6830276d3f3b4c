"""Campaigns of injected faults: files, disks, memory and processes fail under reusebench.

`python -m benchmarks.faults CAMPAIGN` tries as many inputs as it is told, and prints a row of the
table of docs/evidence/faults.md. It judges by what holds whatever the words are: exit
codes, files, processes, memory.
"""
