package extender

import (
	"encoding/binary"
	"net/netip"
)

// forbidden are the addresses that no extender has, and why. Private ranges are
// not among them: that is where the Services of a cluster are.
var forbiddenPrefixes = []struct {
	prefix netip.Prefix
	is     string
}{
	{netip.MustParsePrefix("0.0.0.0/8"), "an unspecified address"}, // which connects to this host
	{netip.MustParsePrefix("127.0.0.0/8"), "a loopback address"},
	{netip.MustParsePrefix("169.254.0.0/16"), "a link-local address, where clouds keep their metadata"},
	{netip.MustParsePrefix("224.0.0.0/4"), "a multicast address"},
	{netip.MustParsePrefix("240.0.0.0/4"), "a reserved address"}, // the broadcast address, too
	// Metadata of clouds that is not link-local.
	{netip.MustParsePrefix("100.100.100.200/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("192.0.0.192/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("168.63.129.16/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("fd00:ec2::/32"), "a cloud's metadata address"},
	{netip.MustParsePrefix("fd20:ce::254/128"), "a cloud's metadata address"},

	{netip.MustParsePrefix("::/128"), "an unspecified address"},
	{netip.MustParsePrefix("::1/128"), "a loopback address"},
	{netip.MustParsePrefix("fe80::/10"), "a link-local address"},
	{netip.MustParsePrefix("fec0::/10"), "a site-local address"},
	{netip.MustParsePrefix("ff00::/8"), "a multicast address"},
}

// carriers are IPv6 addresses that hold an IPv4 address, and where: what the
// packet ends at is the inner one.
var embeddedIPv4 = []struct {
	prefix netip.Prefix
	at     int
}{
	{netip.MustParsePrefix("::/96"), 12},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12}, // IPv4-translated (SIIT)
	{netip.MustParsePrefix("64:ff9b::/96"), 12},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12},  // NAT64 of a site, with a prefix of 96 bits
	{netip.MustParsePrefix("2002::/16"), 2},        // 6to4
}

// teredo holds an IPv4 address with every bit turned over.
var teredo = netip.MustParsePrefix("2001::/32")

// checkAddress says why an extender may not be at an address; empty: it may.
func checkAddress(address netip.Addr) string {
	address = address.Unmap().WithZone("")
	for _, f := range forbiddenPrefixes {
		if f.prefix.Contains(address) {
			return f.is
		}
	}
	if inner, ok := embeddedAddress(address); ok {
		if is := checkAddress(inner); is != "" {
			return is + " inside of an IPv6 address"
		}
	}
	return ""
}

// IsAddress says whether text is an IP address.
func IsAddress(text string) bool {
	_, err := netip.ParseAddr(text)
	return err == nil
}

// carried is the IPv4 address that an IPv6 address holds.
func embeddedAddress(address netip.Addr) (inner netip.Addr, ok bool) {
	if !address.Is6() {
		return netip.Addr{}, false
	}
	bytes := address.As16()
	for _, c := range embeddedIPv4 {
		if c.prefix.Contains(address) {
			return netip.AddrFrom4([4]byte(bytes[c.at : c.at+4])), true
		}
	}
	if teredo.Contains(address) {
		turned := ^binary.BigEndian.Uint32(bytes[12:])
		return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, turned))), true
	}
	return netip.Addr{}, false
}
