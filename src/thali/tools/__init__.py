"""What several packages use and no user sees: checks, compilation, randomness, threads, files."""
