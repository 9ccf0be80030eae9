FROM golang:1.26 AS build
WORKDIR /src
# Modules first: they change less often than the code and stay cached.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags="-s -w -X main.version=${VERSION}" -o /promptweir ./cmd/promptweir

# Nothing but the binary and the certificate authorities that upstreams over https are checked against.
FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /promptweir /promptweir
# A number needs no /etc/passwd, and lets an orchestrator verify that it is not root.
USER 65532:65532
EXPOSE 8080
# The binary asks the admin listener of the running gateway: there is no shell and no curl here.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/promptweir", "healthcheck", "--config", "/etc/promptweir"]
ENTRYPOINT ["/promptweir"]
# Mount the configuration read-only at /etc/promptweir. Beyond loopback it needs an auth block and
# listen = "0.0.0.0:8080".
CMD ["serve", "--config", "/etc/promptweir"]
