gateway {
  allowed_origins = ["file://", "null", "moz-extension://*"] # ERROR: Any web page can send requests with the origin "file://" # ERROR: Any web page can send requests with the origin "null"
}
auth {
  anonymous = true
}
