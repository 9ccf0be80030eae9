gateway { listen = "0.0.0.0:80" }
admin { lisen = "x" } # ERROR: Did you mean "listen"?
auth ] # ERROR: Argument or block definition required
