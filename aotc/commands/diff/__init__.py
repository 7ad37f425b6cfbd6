"""What two bundles differ in, and whether that passes."""
