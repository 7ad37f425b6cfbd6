"""From a verified bundle to callables: resident, ready, called."""
