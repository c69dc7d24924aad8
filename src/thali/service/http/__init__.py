"""HTTP around a :class:`thali.Recommender`: routes, keys, limits, logs. Nothing is learned here."""
