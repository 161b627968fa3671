package crdtest

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	crdvalidation "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/validation"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/defaulting"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/pruning"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	metavalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"reconciler.dev/reconciler/spec"
	"sigs.k8s.io/yaml"
)

// cluster validates objects as an API server with our CRDs does.
type cluster map[string]served

// served is one kind of the cluster.
type served struct {
	structural *schema.Structural
	openAPI    validation.SchemaValidator
	cel        *cel.Validator
}

// newCluster establishes the CRDs; one that an API server refuses (structure, defaults, cost of its rules) fails the test.
func newCluster(t *testing.T) cluster {
	t.Helper()
	c := cluster{}
	for _, kind := range []string{spec.KindProfile, spec.KindServer, spec.KindJob} {
		var external apiextensionsv1.CustomResourceDefinition
		if err := yaml.UnmarshalStrict(spec.CRD(kind), &external); err != nil {
			t.Fatalf("the CRD of %s is none: %v", kind, err)
		}
		apiextensionsv1.SetDefaults_CustomResourceDefinition(&external)
		apiextensionsv1.SetDefaults_CustomResourceDefinitionSpec(&external.Spec)
		var crd apiextensions.CustomResourceDefinition
		if err := apiextensionsv1.Convert_v1_CustomResourceDefinition_To_apiextensions_CustomResourceDefinition(&external, &crd, nil); err != nil {
			t.Fatal(err)
		}
		crd.Status.StoredVersions = []string{"v1alpha1"}
		for _, err := range crdvalidation.ValidateCustomResourceDefinition(context.Background(), &crd) {
			t.Errorf("the CRD of %s is refused: %v", kind, err)
		}
		if t.Failed() {
			t.FailNow()
		}
		props := crd.Spec.Validation
		if props == nil {
			props = crd.Spec.Versions[0].Schema
		}
		structural, err := schema.NewStructural(props.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		openAPI, _, err := validation.NewSchemaValidator(props.OpenAPIV3Schema)
		if err != nil {
			t.Fatal(err)
		}
		c[kind] = served{structural, openAPI, cel.NewValidator(structural, true, celconfig.PerCallLimit)}
	}
	return c
}

// create validates one object as a strict create does, in the order of an API server.
func (c cluster) create(object map[string]any) field.ErrorList {
	kind, _ := object["kind"].(string)
	k, ok := c[kind]
	if !ok || object["apiVersion"] != spec.APIVersion {
		return field.ErrorList{field.NotFound(field.NewPath("kind"), kind)}
	}
	var errs field.ErrorList
	unknown := pruning.PruneWithOptions(object, k.structural, true, schema.UnknownFieldPathOptions{TrackUnknownFieldPaths: true})
	for _, path := range unknown {
		errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
	}
	defaulting.PruneNonNullableNullsWithoutDefaults(object, k.structural)
	defaulting.Default(object, k.structural)
	metadata, ok := object["metadata"].(map[string]any)
	if !ok {
		errs = append(errs, field.Required(field.NewPath("metadata"), ""))
		metadata = map[string]any{}
		object["metadata"] = metadata
	}
	if metadata["namespace"] == nil {
		metadata["namespace"] = spec.DefaultNamespace
	}
	if _, _, unknown, err := objectmeta.GetObjectMetaWithOptions(object, objectmeta.ObjectMetaOptions{ReturnUnknownFieldPaths: true}); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata"), "", err.Error()))
	} else {
		for _, path := range unknown {
			errs = append(errs, field.Forbidden(field.NewPath(path), "unknown field"))
		}
	}
	// As the API server does, CEL is asked only about what the schema has accepted.
	schemaErrs := validation.ValidateCustomResource(nil, object, k.openAPI)
	schemaErrs = append(schemaErrs, listtype.ValidateListSetsAndMaps(nil, k.structural, object)...)
	errs = append(errs, schemaErrs...)
	celErrs, _ := k.cel.Validate(context.Background(), nil, k.structural, object, nil, celconfig.RuntimeCELCostBudget)
	errs = append(errs, celErrs...)
	u := &unstructured.Unstructured{Object: object}
	return append(errs, metavalidation.ValidateObjectMetaAccessor(u, true, metavalidation.NameIsDNSSubdomain, field.NewPath("metadata"))...)
}

// documents cuts a file into objects as kubectl does.
func documents(t *testing.T, data []byte) []map[string]any {
	t.Helper()
	var objects []map[string]any
	for _, part := range bytes.Split(append([]byte("\n"), data...), []byte("\n---\n")) {
		converted, err := yaml.YAMLToJSON(part)
		if err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		var object map[string]any
		if err := json.Unmarshal(converted, &object); err != nil {
			t.Fatal(err)
		}
		if len(object) == 0 {
			continue
		}
		if items, ok := object["items"].([]any); ok {
			for _, item := range items {
				objects = append(objects, integers(item).(map[string]any))
			}
			continue
		}
		objects = append(objects, integers(object).(map[string]any))
	}
	return objects
}

// integers turns JSON's whole numbers into int64, as an API server's decoder does.
func integers(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			v[key] = integers(value)
		}
	case []any:
		for i, value := range v {
			v[i] = integers(value)
		}
	case float64:
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return v
}

func corpus(t *testing.T, folder string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	for _, pattern := range []string{"*.yaml", "*.json"} {
		names, err := filepath.Glob(filepath.Join("..", "testdata", "corpus", folder, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			files[filepath.Base(name)] = data
		}
	}
	if len(files) == 0 {
		t.Fatalf("the corpus has no folder %s", folder)
	}
	return files
}

// marker is what the first line of a file says of its verdict on a cluster.
func marker(data []byte) string {
	first, _, _ := strings.Cut(string(data), "\n")
	word, ok := strings.CutPrefix(first, "# crd: ")
	if !ok {
		return ""
	}
	word, _, _ = strings.Cut(word, " ")
	return word
}

// What we accept a cluster accepts, but for keys of one's own; later versions' servers too.
func TestClusterAcceptsTheGood(t *testing.T) {
	c := newCluster(t)
	for _, folder := range []string{"good", "later"} {
		for name, data := range corpus(t, folder) {
			for i, object := range documents(t, data) {
				errs := c.create(object)
				if refused := marker(data) == "refused"; refused != (len(errs) > 0) {
					t.Errorf("%s/%s: object %d: %v", folder, name, i, errs)
				}
			}
		}
	}
}

// What we refuse a cluster refuses, fault by fault, but for what no schema can see (marked `invisible` in the file).
func TestClusterRefusesTheBad(t *testing.T) {
	c := newCluster(t)
	compared := 0
	for name, data := range corpus(t, "bad") {
		if marker(data) == "invisible" {
			continue
		}
		decoded := spec.Decode(name, data)
		if name == "comma.json" {
			continue // not JSON at all
		}
		for i, object := range documents(t, data) {
			errs := c.create(object)
			for _, fault := range decoded.Faults {
				if fault.Document != decoded.Documents[i].Index {
					continue
				}
				compared++
				if !covers(errs, fault.Field) {
					t.Errorf("a cluster does not see: %s\nit sees %v", fault.Error(), errs)
				}
			}
		}
	}
	if compared < 100 {
		t.Errorf("only %d faults were compared", compared)
	}
}

// covers reports whether a cluster's errors have one at a field.
func covers(errs field.ErrorList, at string) bool {
	at = dotted(at)
	for _, err := range errs {
		path := strings.TrimPrefix(err.Field, ".")
		below := ""
		if rule := ruleField(err.Detail); rule != "" {
			path = strings.TrimPrefix(path+"."+rule, ".")
			below = path // a rule between fields speaks of all that is below what it names
		}
		if err.Type == field.ErrorTypeDuplicate || strings.HasPrefix(err.Detail, "json: ") {
			below = path // the API server names the item where we name its key, and decodes metadata whole
		}
		path = dotted(path)
		if path == at || strings.HasPrefix(path, at+".") || strings.HasPrefix(path, at+"[") ||
			below != "" && (strings.HasPrefix(at, dotted(below)+".") || strings.HasPrefix(at, dotted(below)+"[")) {
			return true
		}
	}
	return false
}

// ruleField is the field that the message of one of our rules begins with, "" for any other message.
func ruleField(detail string) string {
	if _, message, ok := strings.Cut(detail, "evaluating rule: "); ok {
		detail = message
	}
	name, _, ok := strings.Cut(detail, ": ")
	if !ok || name == "json" || strings.ContainsAny(name, " '\"") {
		return ""
	}
	return name
}

// dotted writes spec.parameters[name] as the schema's validator does: spec.parameters.name.
func dotted(path string) string {
	var b strings.Builder
	for {
		before, rest, ok := strings.Cut(path, "[")
		b.WriteString(before)
		if !ok {
			return b.String()
		}
		key, after, _ := strings.Cut(rest, "]")
		if key != "" && key[0] >= '0' && key[0] <= '9' {
			b.WriteString("[" + key + "]")
		} else {
			b.WriteString("." + key)
		}
		path = after
	}
}

// The marker is used where it must be: a file that a cluster sees through has none.
func TestMarkersAreNeeded(t *testing.T) {
	c := newCluster(t)
	for name, data := range corpus(t, "bad") {
		if marker(data) != "invisible" || strings.Contains(string(data), "(file)") || strings.Contains(string(data), "(kinds)") ||
			strings.Contains(string(data), "(metadata)") || strings.Contains(string(data), "(YAML traps)") {
			continue // what kubectl makes of these, or refuses of them, is its own affair
		}
		decoded := spec.Decode(name, data)
		unseen := 0
		for i, object := range documents(t, data) {
			errs := c.create(object)
			for _, fault := range decoded.Faults {
				if fault.Document == decoded.Documents[i].Index && !covers(errs, fault.Field) {
					unseen++
				}
			}
		}
		if unseen == 0 {
			t.Errorf("%s: a cluster sees every fault: take the marker away", name)
		}
	}
}
