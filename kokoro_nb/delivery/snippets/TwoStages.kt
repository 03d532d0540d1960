// What lies between and behind the two stages that contract.json describes; no dependencies.

/**
 * Durations in frames (pred_dur; 0 behind the text) -> for each frame the index of its token.
 *
 * Frame f of "en" is row index[f] of "d", frame f of "asr" is column index[f] of "t_en"; as a matrix of tokens x frames
 * to multiply with, it holds 1 at (index[f], f) and 0 elsewhere.
 */
fun alignment(durations: LongArray): IntArray {
    require(durations.all { it >= 0 }) { "a duration is negative" }
    return durations.flatMapIndexed { token, frames -> List(frames.toInt()) { token } }.toIntArray()
}

/** Rooms of the buckets in frames, in any order -> the smallest with room for so many frames. */
fun bucket(rooms: IntArray, frames: Int): Int =
    requireNotNull(rooms.filter { frames <= it }.minOrNull()) { "$frames frames have no room; cut the text" }

/** The decoder's audio, as long as its bucket -> the samples that are valid. */
fun trimmed(audio: FloatArray, frames: Int, samplesPerFrame: Int = 600): FloatArray {
    val samples = frames * samplesPerFrame
    require(samples in 0..audio.size) { "the audio is shorter than its frames" }
    return audio.copyOf(samples)
}
