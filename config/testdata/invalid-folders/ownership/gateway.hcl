gateway {}
