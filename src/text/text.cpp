// The layer has at least one source from the start.
namespace glmtune {}
