"""The service: HTTP around a :class:`thali.Recommender`. Routes, keys, limits, logs; nothing is learned here."""
