"""The types that bundles and policies are made of: values only, no files, no clock, no arrays."""
