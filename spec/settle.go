package spec

import (
	"maps"
	"slices"
)

// settle gives every declared parameter its value as text: the given one, else its default, else one next door; of a Secret
// the mark. owner says whose parameters they are, as in "profile 'openttd'". A faulty value is settled too, so that its references are known and
// only the value is at fault.
func settle(declared []Parameter, given map[string]IntOrString, owner string, fault func(name, kind, shown, detail string)) map[string]string {
	s := settling{fault: fault, values: make(map[string]string, len(declared)), numbers: map[string]int64{}}
	for _, name := range slices.Sorted(maps.Keys(given)) {
		if findParameter(declared, name) == nil {
			fault(shorten(name), FaultNotFound, "", owner+" has no such parameter"+didYouMean(name, parameterNames(declared)))
		}
	}
	derived := false
	for i := range declared {
		p := &declared[i]
		v, ok := given[p.Name]
		switch {
		case ok:
			s.one(p, v)
		case p.Default != nil:
			s.one(p, *p.Default)
		case p.DefaultFrom != nil:
			derived = true
		default:
			fault(p.Name, FaultRequired, "", "must be given: "+owner+" has no default for it")
		}
	}
	if !derived {
		return s.values
	}
	for i := range declared {
		p := &declared[i]
		if _, ok := given[p.Name]; ok || p.Default != nil || p.DefaultFrom == nil {
			continue
		}
		if from, ok := s.numbers[p.DefaultFrom.Parameter]; ok {
			s.one(p, IntOrString{Int: from + valueOr(p.DefaultFrom.Add, 0)})
		}
	}
	return s.values
}

// settling is a settle under way.
type settling struct {
	fault   func(name, kind, shown, detail string)
	values  map[string]string
	numbers map[string]int64 // of those that are integers
}

func (s *settling) one(p *Parameter, v IntOrString) {
	if kind, detail := p.check(v); detail != "" {
		shown := ""
		if !v.IsString && p.typeName() != ParameterSecret {
			shown = v.Text()
		}
		s.fault(p.Name, kind, shown, detail)
	}
	s.values[p.Name] = v.Text()
	if p.typeName() == ParameterSecret {
		s.values[p.Name] = MarkSecret(v.Text())
	}
	if !v.IsString {
		s.numbers[p.Name] = v.Int
	}
}
