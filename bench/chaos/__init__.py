"""Chaos from a seed: processes, database, network and services fail at random, and nothing may be lost."""
