"""`aotc import-tensorflow`: a signature of a SavedModel as a model file that aotc reads."""
