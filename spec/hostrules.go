package spec

import (
	"slices"
)

func (d *decoder) host(h *Host) { d.rulesOf().host(&h.Spec) }

func (r rules) host(h *HostSpec) {
	at := (*path)(nil).field("spec")
	r.tunEngine(h.TunEngine, at.field("tunEngine").field("args"))
	if h.Logs == nil {
		return
	}
	perServer, total := quantityOr(h.Logs.PerServer, DefaultLogsPerServer), quantityOr(h.Logs.Total, DefaultLogsTotal)
	if perServer > total {
		r.report(at.field("logs").field("total"), FaultInvalid, "", "must be at least `perServer`")
	}
}

// tunEngine knows two references of its own and no others.
func (r rules) tunEngine(e *TunEngine, at *path) {
	if e == nil {
		return
	}
	known := []string{"tun.device", "tun.socks"}
	for i, a := range e.Args {
		detail := references(a, func(string) {}, func(name string) {
			if !slices.Contains(known, name) {
				r.report(at.item(i), FaultNotFound, "", showName(name)+" must be one of "+quoted(known)+didYouMean(name, known)+"; "+literalHint)
			}
		})
		if detail != "" {
			r.report(at.item(i), FaultInvalid, "", detail)
		}
	}
}

func quantityOr(v *IntOrString, otherwise int64) int64 {
	if v == nil {
		return otherwise
	}
	if n, ok := parseQuantity(v.Text()); ok {
		return n
	}
	return otherwise
}

// Budgets are the host's log budgets in bytes, defaults filled in.
func (h *HostSpec) Budgets() (perServer, total int64) {
	if h.Logs == nil {
		return DefaultLogsPerServer, DefaultLogsTotal
	}
	return quantityOr(h.Logs.PerServer, DefaultLogsPerServer), quantityOr(h.Logs.Total, DefaultLogsTotal)
}
