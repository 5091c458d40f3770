"""Chaos: a run of thousands of jobs while everything around it breaks, and a verdict on what came out.

`make chaos`, or `python -m tests.system.chaos --seed 7 --seconds 150`. The seed makes the plan again.
"""
