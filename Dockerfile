# Berth's manager, and nothing beside it: no shell, no package manager, no root.
#
#   docker buildx build --platform linux/amd64,linux/arm64 --build-arg VERSION=v0.1.0 .
#
# The compiler runs on the machine's own platform and compiles for the other one:
# nothing is emulated.
FROM --platform=$BUILDPLATFORM golang:1.26.8@sha256:6c2a5538f964f1c82f97ad14988bf05de100d922d159d0e398b54c7b0ca0c6c9 AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS
ARG TARGETARCH
ARG VERSION=dev
# .goreleaser.yaml says what the tag is for.
RUN CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -tags grpcnotrace -trimpath -buildvcs=false \
	-ldflags "-s -w -X github.com/berthdev/berth/operator.version=$VERSION" -o /manager .

FROM gcr.io/distroless/static-debian12:nonroot@sha256:afa5c872c891853ca7fcf1f12c3edb23f7eeef36189728842dd51042ff57f7ab
COPY --from=build /manager /manager
# By number: the kubelet cannot tell of a name whether it is root.
USER 65532:65532
ENTRYPOINT ["/manager"]
