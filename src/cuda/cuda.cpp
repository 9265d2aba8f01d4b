// The layer's library has at least one source in every build.
namespace glmtune {}
