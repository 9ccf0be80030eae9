# The digest pins the bytes of the compiler's image, for all platforms. Another one: --build-arg GO=golang:VERSION@sha256:…
ARG GO=golang:1.26.8@sha256:6c2a5538f964f1c82f97ad14988bf05de100d922d159d0e398b54c7b0ca0c6c9
FROM ${GO} AS build
WORKDIR /src
# Modules first: they change less often than the code, so their layer stays cached.
COPY go.mod go.sum ./
RUN go mod download
COPY . .
# docker build --build-arg VERSION=1.0.0 --build-arg COMMIT="$(git rev-parse HEAD)" --build-arg DATE="$(git log -1 --format=%cI)" .
ARG VERSION= COMMIT= DATE=
RUN CGO_ENABLED=0 go build -tags grpcnotrace -trimpath -buildvcs=false \
    -ldflags="-s -w -X main.version=${VERSION} -X main.commit=${COMMIT} -X main.date=${DATE}" -o /promptweir ./cmd/promptweir

# A shell-less image with the binary, and the certificate authorities that vouch for upstreams over HTTPS.
FROM scratch
ARG VERSION= COMMIT= DATE=
LABEL org.opencontainers.image.title="promptweir" org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${COMMIT}" org.opencontainers.image.created="${DATE}"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /promptweir /promptweir
# A numeric UID needs no /etc/passwd, and lets an orchestrator verify that it is not root.
USER 65532:65532
# For clients, and for operators and metrics.
EXPOSE 8080 8081
# The image has no shell and no curl, so the binary itself checks the gateway's admin listener.
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/promptweir", "healthcheck", "--config", "/etc/promptweir"]
ENTRYPOINT ["/promptweir"]
# Mount the configuration read-only at /etc/promptweir. For clients outside the container it needs listen = "0.0.0.0:8080"
# and an auth block.
CMD ["serve", "--config", "/etc/promptweir"]
