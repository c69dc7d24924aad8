"""Compiled functions over plain arrays: nothing here owns a generator, an object or a rule about input."""
