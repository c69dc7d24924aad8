"""The paper's experiments and ours: problems, settings, runs, verdicts, figures and reports."""
