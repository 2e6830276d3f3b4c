"""What happens to reusebench when files, disks, memory and processes fail: campaigns of made-up
faults.

`python -m benchmarks.faults CAMPAIGN` tries as many inputs as it is told, and prints a row of the
table of docs/reliability.md. It judges by what holds whatever the words are: exit codes, files,
processes, memory.
"""
