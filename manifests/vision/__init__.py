"""A residual convolutional network over small color images, written with Equinox."""
