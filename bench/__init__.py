"""Figures that are promised, measured as ratios inside one run: `make bench`, `make bench ONLY=id,id`."""
