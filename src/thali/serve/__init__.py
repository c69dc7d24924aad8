"""The service: HTTP around a :class:`thali.Recommender`. Routes, keys, limits, logs and measures; nothing is learned here."""
