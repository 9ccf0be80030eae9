team d {
  members = ] # ERROR: Invalid expression
}
