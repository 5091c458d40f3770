"""A local stand-in for the services, and the judge: it counts calls and limits itself, sharing no code."""
