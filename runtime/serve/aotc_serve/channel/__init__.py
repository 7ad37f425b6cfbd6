"""What a channel says is deployed: TUF metadata, asked by `aotc verify --channel`, by no load."""
