// What lies between and behind the two stages that contract.json describes; no dependencies.

enum TwoStagesError: Error {
    case negativeDuration
    case noRoom(frames: Int)
    case audioTooShort
}

/// Durations in frames (pred_dur; 0 behind the text) -> for each frame the index of its token.
///
/// Frame f of "en" is row index[f] of "d", frame f of "asr" is column index[f] of "t_en"; as a matrix of tokens x frames
/// to multiply with, it holds 1 at (index[f], f) and 0 elsewhere.
func alignment(_ durations: [Int]) throws -> [Int] {
    guard durations.allSatisfy({ $0 >= 0 }) else { throw TwoStagesError.negativeDuration }
    return durations.enumerated().flatMap { token, frames in Array(repeating: token, count: frames) }
}

/// Rooms of the buckets in frames, in any order -> the smallest with room for so many frames.
func bucket(_ rooms: [Int], frames: Int) throws -> Int {
    guard let room = rooms.filter({ frames <= $0 }).min() else { throw TwoStagesError.noRoom(frames: frames) }
    return room
}

/// The decoder's audio, as long as its bucket -> the samples that are valid.
func trimmed(_ audio: [Float], frames: Int, samplesPerFrame: Int = 600) throws -> [Float] {
    let samples = frames * samplesPerFrame
    guard samples >= 0, samples <= audio.count else { throw TwoStagesError.audioTooShort }
    return Array(audio.prefix(samples))
}
