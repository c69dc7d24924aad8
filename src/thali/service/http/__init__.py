"""The HTTP API of a :class:`thali.Recommender`: routes, keys, limits and logs. All learning is in the recommender."""
