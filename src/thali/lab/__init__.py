"""The paper's experiments and ours: problems as data, what to run on them, and how to show it."""
