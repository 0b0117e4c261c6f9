//! What the committer machine does: as transcripts, in every small interleaving, and from seeds.

mod every;
mod play;
mod sim;
mod transcript;
