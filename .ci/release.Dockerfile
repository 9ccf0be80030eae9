# The image of a release. It has what the Dockerfile's has, with the binary that the archives have.
ARG GO=golang:1.26.8@sha256:6c2a5538f964f1c82f97ad14988bf05de100d922d159d0e398b54c7b0ca0c6c9
FROM --platform=$BUILDPLATFORM ${GO} AS certificates
FROM scratch
ARG TARGETPLATFORM
COPY --from=certificates /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY $TARGETPLATFORM/promptweir /promptweir
USER 65532:65532
EXPOSE 8080 8081
HEALTHCHECK --interval=10s --timeout=3s --start-period=10s CMD ["/promptweir", "healthcheck", "--config", "/etc/promptweir"]
ENTRYPOINT ["/promptweir"]
CMD ["serve", "--config", "/etc/promptweir"]
