"""The deployment channel: TUF metadata, for `aotc verify --channel`, not for loads."""
