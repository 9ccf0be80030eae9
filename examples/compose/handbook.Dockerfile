FROM golang:1.26.8 AS build
WORKDIR /src
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -buildvcs=false -o /handbook ./examples/servers/handbook

FROM scratch
COPY --from=build /handbook /handbook
USER 65532:65532
ENTRYPOINT ["/handbook"]
