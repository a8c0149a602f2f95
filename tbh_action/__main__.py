"""`python -m tbh_action`: the same command where the script is not on PATH."""

from tbh_action.cli import main

main(prog_name="tbh")
