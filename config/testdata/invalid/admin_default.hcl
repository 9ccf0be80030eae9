gateway { listen = "localhost:8081" }    # ERROR: admin.listen is 127.0.0.1:8081 by default
