"""What an author can declare, and the rules that a declaration keeps."""
