"""Internal helpers shared by several packages: checks, compilation, randomness, threads, files."""
