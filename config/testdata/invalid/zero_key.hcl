gateway {
  cursor_keys = ["AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="] # ERROR: (sensitive) is all zeros, which anyone can guess
}
