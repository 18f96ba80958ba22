#!/usr/bin/env python3
"""Records what Pillow and torchvision make of small pictures, for the tests of engine/image.

    record.py OUT

Needs Pillow with WebP, and torch with torchvision 0.27 or newer (for Lanczos on tensors), on a CPU with AVX2.

OUT/FORMAT/NAME            a picture, written here byte by byte where Pillow can't write it
OUT/expected/NAME.ppm      what is expected of it: upright as PIL.ImageOps.exif_transpose has it, on white
OUT/scale/source.ppm       a picture, and FILTER-WHO-WIDTHxHEIGHT.ppm: the same scaled by Pillow or torchvision
OUT/scale/floats-FILTER-WIDTHxHEIGHT.bin  float32 (height, width, 2): torch's interpolate on floats-source.bin (7, 9, 2)
"""
import io, os, struct, sys, zlib
import numpy as np
from PIL import Image, ImageOps

out = sys.argv[1]
folders = {"png": "png", "jpg": "jpeg", "webp": "webp", "gif": "gif", "bmp": "bmp"}
for folder in *folders.values(), "expected", "scale":
    os.makedirs(f"{out}/{folder}", exist_ok=True)
random = np.random.default_rng(35)


def picture(width, height, channels=3):
    """Gradients, edges and noise."""
    y, x = np.mgrid[0:height, 0:width]
    waves = [np.sin(x * (0.3 + 0.2 * c) + y * (0.5 - 0.1 * c) + c) for c in range(channels)]
    values = 128 + 90 * np.stack(waves, -1) + random.normal(0, 15, (height, width, channels))
    values[height // 3 : height // 2, width // 4 : width // 2] = random.uniform(0, 255, channels)
    return np.clip(values, 0, 255).astype(np.uint8)


def ppm(name, array):
    height, width, _ = array.shape
    with open(f"{out}/{name}", "wb") as file:
        file.write(b"P6\n%d %d\n255\n" % (width, height) + np.ascontiguousarray(array, np.uint8).tobytes())


def on_white(image):
    if image.mode in ("RGBA", "LA", "PA") or "transparency" in image.info:
        image = image.convert("RGBA")
        white = Image.new("RGB", image.size, "white")
        white.paste(image, mask=image.getchannel("A"))
        return white
    return image.convert("RGB")


def add(name, data, expected=None):
    with open(f"{out}/{folders[name.split('.')[-1]]}/{name}", "wb") as file:
        file.write(data)
    if expected is None:
        expected = np.asarray(on_white(ImageOps.exif_transpose(Image.open(io.BytesIO(data)))))
    ppm(f"expected/{name}.ppm", expected)


def saved(image, kind, **options):
    file = io.BytesIO()
    image.save(file, kind, **options)
    return file.getvalue()


def exif(orientation):
    data = Image.Exif()
    data[274] = orientation
    return data.tobytes()


# ---- PNG, which Pillow writes neither interlaced nor with 16 bits of colour -----------------------------------


def png_chunk(name, data):
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))


def png(samples, bits, colour, interlaced=False, before=b"", behind=b""):
    """samples (height, width, channels) of `bits` each."""
    height, width, channels = samples.shape

    def rows(part):
        if part.size == 0:
            return b""
        data = b""
        for row in part.reshape(part.shape[0], -1):
            if bits == 16:
                packed = row.astype(">u2").tobytes()
            else:
                ones = ((row[:, None].astype(int) >> np.arange(bits - 1, -1, -1)) & 1).reshape(-1)
                packed = np.packbits(ones.astype(np.uint8)).tobytes()
            data += b"\0" + packed
        return data

    passes = [(0, 0, 8, 8), (0, 4, 8, 8), (4, 0, 8, 4), (0, 2, 4, 4), (2, 0, 4, 2), (0, 1, 2, 2), (1, 0, 2, 1)]
    data = b"".join(rows(samples[y::h, x::w]) for y, x, h, w in passes) if interlaced else rows(samples)
    header = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + png_chunk(b"IHDR", header) + before + png_chunk(b"IDAT", zlib.compress(data, 9))
            + behind + png_chunk(b"IEND", b""))


def pngs():
    colours = picture(21, 13)
    wide = (picture(21, 13).astype(np.uint16) << 8) | random.integers(0, 256, (13, 21, 3), dtype=np.uint16)
    alpha = picture(21, 13, 4)
    palette = random.integers(0, 256, (16, 3), dtype=np.uint8)
    plte = png_chunk(b"PLTE", palette.tobytes())
    add("rgb.png", png(colours, 8, 2))
    add("rgb-interlaced.png", png(colours, 8, 2, True))
    add("rgb-16.png", png(wide, 16, 2), wide >> 8)
    add("grey-16.png", png(wide[:, :, :1], 16, 0), np.repeat(wide[:, :, :1] >> 8, 3, 2))
    add("rgba.png", png(alpha, 8, 6))
    add("rgba-interlaced.png", png(alpha, 8, 6, True))
    add("grey-alpha.png", png(alpha[:, :, :2], 8, 4))
    for bits in 1, 2, 4, 8:
        grey = picture(21, 13, 1) >> (8 - bits)
        add(f"grey-{bits}.png", png(grey, bits, 0), np.repeat(grey.astype(int) * 255 // (2**bits - 1), 3, 2))
        add(f"palette-{bits}.png", png(np.minimum(grey, 15), bits, 3, bits == 2, plte if bits > 2 else png_chunk(b"PLTE", palette[: 2**bits].tobytes())))
    add("palette-alpha.png", png(picture(21, 13, 1) >> 4, 4, 3, False, plte + png_chunk(b"tRNS", bytes([0, 128, 255, 17]))))
    add("rgb-transparent.png", png(colours, 8, 2, False, png_chunk(b"tRNS", struct.pack(">HHH", *map(int, colours[5, 7])))))
    add("grey-transparent.png", png(colours[:, :, :1], 8, 0, False, png_chunk(b"tRNS", struct.pack(">H", int(colours[5, 7, 0])))))
    add("exif.png", png(colours, 8, 2, False, png_chunk(b"eXIf", exif(6)[6:])))
    add("exif-behind.png", png(colours, 8, 2, False, b"", png_chunk(b"eXIf", exif(3)[6:])))
    xmp = b'<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:Description tiff:Orientation="8"/></x:xmpmeta>'
    add("xmp.png", png(colours, 8, 2, False, png_chunk(b"iTXt", b"XML:com.adobe.xmp\0\0\0\0\0" + xmp)))


# ---- JPEG, WebP, GIF --------------------------------------------------------------------------------------------


def jpegs():
    image = Image.fromarray(picture(37, 22))
    for orientation in range(1, 9):
        add(f"exif-{orientation}.jpg", saved(Image.fromarray(picture(19, 10)), "JPEG", quality=90, exif=exif(orientation)))
    add("420.jpg", saved(image, "JPEG", quality=70, subsampling=2))
    add("422.jpg", saved(image, "JPEG", quality=70, subsampling=1))
    add("444.jpg", saved(image, "JPEG", quality=95, subsampling=0))
    add("progressive.jpg", saved(image, "JPEG", quality=80, progressive=True))
    add("restarts.jpg", saved(image, "JPEG", quality=80, restart_marker_blocks=2))
    add("grey.jpg", saved(image.convert("L"), "JPEG", quality=80))
    cmyk = Image.fromarray(picture(37, 22, 4), "CMYK")
    add("cmyk.jpg", saved(cmyk, "JPEG", quality=90))
    for order, mark, name in ("<", b"II*\0", "little"), (">", b"MM\0*", "big"):
        tiff = b"Exif\0\0" + mark + struct.pack(order + "IHHHIHHI", 8, 1, 274, 3, 1, 5, 0, 0)
        add(f"exif-{name}-endian.jpg", saved(image, "JPEG", quality=90, exif=tiff))


def webps():
    image = Image.fromarray(picture(33, 18))
    clear = Image.fromarray(picture(33, 18, 4), "RGBA")
    add("lossy.webp", saved(image, "WEBP", quality=70))
    add("lossy-alpha.webp", saved(clear, "WEBP", quality=70))
    add("lossless.webp", saved(image, "WEBP", lossless=True))
    add("lossless-alpha.webp", saved(clear, "WEBP", lossless=True, exact=True))
    add("exif.webp", saved(image, "WEBP", quality=70, exif=exif(8)))
    other = Image.fromarray(picture(33, 18))
    add("animated.webp", saved(image, "WEBP", save_all=True, append_images=[other], duration=100, lossless=True))
    add("animated-alpha.webp", saved(clear, "WEBP", save_all=True, append_images=[other.convert("RGBA")], lossless=True, exact=True))
    # A first frame that covers a part of its canvas.
    frame = saved(image.crop((0, 0, 12, 8)), "WEBP", lossless=True)[12:]
    three = lambda number: struct.pack("<I", number)[:3]
    chunk = lambda name, data: name + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)
    part = chunk(b"ANMF", three(4 // 2) + three(6 // 2) + three(12 - 1) + three(8 - 1) + three(100) + b"\0" + frame)
    for name, flags in ("part", b"\x02"), ("part-alpha", b"\x12"):
        file = chunk(b"VP8X", flags + b"\0\0\0" + three(33 - 1) + three(18 - 1)) + chunk(b"ANIM", b"\0" * 6) + part
        add(f"{name}.webp", b"RIFF" + struct.pack("<I", 4 + len(file)) + b"WEBP" + file)


def gif_part(indices, x, y, bits=4, interlaced=False, transparent=None):
    """A frame whose codes are never shortened: a clear code before the table would grow."""
    height, width = indices.shape
    order = [*range(0, height, 8), *range(4, height, 8), *range(2, height, 4), *range(1, height, 2)] if interlaced else range(height)
    clear, codes = 1 << bits, []
    for n, value in enumerate(int(v) for r in order for v in indices[r]):
        if n % (clear - 2) == 0:
            codes.append(clear)
        codes.append(value)
    codes.append(clear + 1)
    number = sum(code << i * (bits + 1) for i, code in enumerate(codes))
    data = number.to_bytes((len(codes) * (bits + 1) + 7) // 8, "little")
    blocks = b"".join(bytes([len(data[i : i + 255])]) + data[i : i + 255] for i in range(0, len(data), 255)) + b"\0"
    control = b"" if transparent is None else b"\x21\xf9\x04\x01\x0a\x00" + bytes([transparent]) + b"\0"
    return control + b"," + struct.pack("<HHHHB", x, y, width, height, 64 if interlaced else 0) + bytes([bits]) + blocks


def gifs():
    palette = random.integers(0, 256, (16, 3), dtype=np.uint8).tobytes()
    screen = b"GIF89a" + struct.pack("<HHBBB", 23, 14, 0x83, 0, 0) + palette
    indices = picture(23, 14, 1)[:, :, 0] >> 4
    add("plain.gif", screen + gif_part(indices, 0, 0) + b";")
    add("interlaced.gif", screen + gif_part(indices, 0, 0, interlaced=True) + b";")
    add("transparent.gif", screen + gif_part(indices, 0, 0, transparent=int(indices[6, 9])) + b";")
    add("part.gif", screen + gif_part(indices[:7, :11], 5, 3) + b";")
    add("part-transparent.gif", screen + gif_part(indices[:7, :11], 5, 3, transparent=int(indices[2, 2])) + b";")
    add("beyond.gif", screen + gif_part(indices, 5, 3) + b";")
    comment = b"\x21\xfe\x05hello\0"
    add("animated.gif", screen + comment + gif_part(indices, 0, 0) + gif_part(indices[::-1], 0, 0) + b";")
    add("pillow.gif", saved(Image.fromarray(picture(33, 18)), "GIF"))


# ---- BMP --------------------------------------------------------------------------------------------------------


def bmp(width, height, bits, pixels, compression=0, palette=b"", header=40, extra=b"", colours=0):
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, height, 1, bits, compression, len(pixels), 2835, 2835, colours, 0)
    info += extra
    begin = 14 + len(info) + len(palette)
    return b"BM" + struct.pack("<IHHI", begin + len(pixels), 0, 0, begin) + info + palette + pixels


def bmp_rows(rows):
    return b"".join(row + b"\0" * (-len(row) % 4) for row in rows)


def bmps():
    width, height = 21, 13
    colours, alpha = picture(width, height), picture(width, height, 4)
    for n in 1, 4, 8:
        count = min(2**n, 16)
        palette = np.concatenate([random.integers(0, 256, (count, 3), dtype=np.uint8), np.zeros((count, 1), np.uint8)], 1)
        indices = np.minimum(picture(width, height, 1)[:, :, 0] >> (8 - n), count - 1)
        bits = ((indices[:, :, None].astype(int) >> np.arange(n - 1, -1, -1)) & 1).reshape(height, -1).astype(np.uint8)
        rows = [np.packbits(row).tobytes() for row in bits[::-1]]
        expected = palette[indices][:, :, 2::-1]
        add(f"palette-{n}.bmp", bmp(width, height, n, bmp_rows(rows), 0, palette.tobytes(), colours=0 if n < 8 else 16), expected)
        add(f"core-{n}.bmp", bmp(width, height, n, bmp_rows(rows), 0, palette[:, :3].tobytes() + b"\0" * (3 * 240 if n == 8 else 0), 12), expected)
    bgr = [row[:, ::-1].tobytes() for row in colours]
    add("24.bmp", bmp(width, height, 24, bmp_rows(bgr[::-1])))
    add("24-down.bmp", bmp(width, -height, 24, bmp_rows(bgr)))
    bgrx = [row[:, [2, 1, 0, 3]].tobytes() for row in alpha[::-1]]
    add("32.bmp", bmp(width, height, 32, b"".join(bgrx)))
    masks = struct.pack("<IIII", 0xFF0000, 0xFF00, 0xFF, 0xFF000000)
    add("32-masks.bmp", bmp(width, height, 32, b"".join(bgrx), 3, extra=masks[:12]))
    add("32-alpha.bmp", bmp(width, height, 32, b"".join(bgrx), 3, header=124, extra=masks + b"\0" * 68))
    five = (colours.astype(int) >> 3) @ np.array([1 << 10, 1 << 5, 1])
    add("16.bmp", bmp(width, height, 16, bmp_rows(row.astype("<u2").tobytes() for row in five[::-1])))
    six = (colours.astype(int) >> np.array([3, 2, 3])) @ np.array([1 << 11, 1 << 5, 1])
    add("565.bmp", bmp(width, height, 16, bmp_rows(row.astype("<u2").tobytes() for row in six[::-1]), 3, extra=struct.pack("<III", 0xF800, 0x7E0, 0x1F)))
    palette = b"".join(bytes([i * 16, 255 - i * 16, i * 7, 0]) for i in range(16))
    table = np.frombuffer(palette, np.uint8).reshape(16, 4)[:, 2::-1]
    # Rows from the bottom: a run, pixels as they are (an odd number), a step right and up, and the end.
    expected = np.zeros((4, 9), int)
    expected[3] = [5] * 6 + [1, 2, 3]
    expected[1, 4:7] = 9
    add("rle8.bmp", bmp(9, 4, 8, bytes([6, 5, 0, 3, 1, 2, 3, 0, 0, 0, 0, 2, 4, 1, 3, 9, 0, 1]), 1, palette, colours=16), table[expected])
    expected[3] = [5, 6, 5, 6, 5, 6, 1, 2, 3]
    add("rle4.bmp", bmp(9, 4, 4, bytes([6, 0x56, 0, 3, 0x12, 0x30, 0, 0, 0, 2, 4, 1, 3, 0x99, 0, 1]), 2, palette), table[expected])


# ---- Scaling ----------------------------------------------------------------------------------------------------


def scaled():
    import torch
    from torch.nn.functional import interpolate
    from torchvision.transforms.v2 import functional

    assert torch.backends.cpu.get_cpu_capability() in ("AVX2", "AVX512")
    source = picture(37, 29)
    ppm("scale/source.ppm", source)
    names = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC, "lanczos": Image.Resampling.LANCZOS}
    sizes = [(37, 17), (11, 29), (8, 6), (19, 15), (36, 30), (61, 40), (3, 50), (1, 1)]
    tensor = torch.from_numpy(source).permute(2, 0, 1)
    for name, filter in names.items():
        for width, height in sizes:
            ppm(f"scale/{name}-pil-{width}x{height}.ppm", np.asarray(Image.fromarray(source).resize((width, height), filter)))
            result = functional.resize(tensor, [height, width], interpolation=functional.InterpolationMode(name), antialias=True)
            ppm(f"scale/{name}-torch-{width}x{height}.ppm", result.permute(1, 2, 0).numpy())
    grid = random.normal(0, 1, (7, 9, 2)).astype("<f4")
    grid.tofile(f"{out}/scale/floats-source.bin")
    for name in "bilinear", "bicubic":
        for width, height in (5, 4), (13, 7), (9, 20):
            result = interpolate(torch.from_numpy(grid).permute(2, 0, 1)[None], size=(height, width), mode=name, align_corners=False, antialias=True)
            result[0].permute(1, 2, 0).contiguous().numpy().astype("<f4").tofile(f"{out}/scale/floats-{name}-{width}x{height}.bin")


pngs()
jpegs()
webps()
gifs()
bmps()
scaled()
