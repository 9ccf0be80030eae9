auth {                                   # ERROR: Nobody can authenticate
  anonymous = false
}
