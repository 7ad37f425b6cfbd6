"""The command line: parse, call one public function, render. One file per command."""
