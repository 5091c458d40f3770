"""Programs that run under the peers' own Python and import nothing of ours: `python FILE prepare|work …`."""
