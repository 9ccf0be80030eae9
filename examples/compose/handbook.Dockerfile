FROM golang:1.26.8@sha256:6c2a5538f964f1c82f97ad14988bf05de100d922d159d0e398b54c7b0ca0c6c9 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /handbook ./examples/servers/handbook

FROM scratch
COPY --from=build /handbook /handbook
USER 65532:65532
ENTRYPOINT ["/handbook"]
