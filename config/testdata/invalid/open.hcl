gateway { listen = "0.0.0.0:8080" }      # ERROR: Without an auth block everyone is anonymous
admin { listen = ":8080" }               # ERROR: gateway.listen and admin.listen are the same address
