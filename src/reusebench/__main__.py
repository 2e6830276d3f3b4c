"""`python -m reusebench`: the command `reusebench` with an interpreter of the caller's choice."""

from reusebench.commands import main

main(prog_name="reusebench")
